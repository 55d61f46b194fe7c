# amqtt is untyped; these stubs hold what gpuherd_autoscaler.amqtt_broker uses.
