"""Every metric the autoscaler exports: name, type, meaning and labels."""

from typing import Final

from gpuherd.exposition import counter, gauge

METRICS: Final = (
    gauge("scaler_build_info", "Version of the autoscaler; always 1.", "version"),
    gauge("scaler_term", "The term it writes under; 0 before it has taken one."),
    gauge("scaler_mode", "1 for the mode that stands: enforce acts, recommend only shows.", "mode"),
    gauge("scaler_leading", "1 while it has the lead; left out before the first decision."),
    gauge("scaler_frozen", "1 while nothing may be taken away."),
    gauge("scaler_paused", "1 while people have paused it: plans are shown and not carried out."),
    gauge("scaler_broker_connected", "1 while a session with the broker stands."),
    gauge("scaler_head_reachable", "1 while Ray's head answers; left out before the first decision."),
    gauge("scaler_ledger_writable", "1 while decisions can be recorded; without that nothing is acted on."),
    gauge("scaler_nodes", "Expected nodes by where they stand.", "lifecycle"),
    gauge("scaler_gpus_declared", "GPUs that the expected nodes are meant to have."),
    gauge("scaler_gpus_counted", "GPUs that their drivers count."),
    gauge("scaler_gpus_healthy", "GPUs that are fit to serve."),
    gauge("scaler_gpus_serving", "Healthy GPUs of nodes that serve."),
    gauge("scaler_pending_requests", "Requests that wait in Ray, all shapes together."),
    gauge("scaler_infeasible_requests", "Requests that fit no node of any pool, all shapes together."),
    gauge(
        "scaler_pool_nodes",
        "Nodes of a pool: listed, serving, its bounds, and what it shall have.",
        "pool",
        "kind",
    ),
    gauge("scaler_decision_seconds", "How long the last decision took to make."),
    gauge("scaler_trigger_nodes", "Nodes that a trigger asks for, or asked for by its last word.", "trigger"),
    gauge("scaler_trigger_up", "1 while a trigger tells of the present; 0 = it is missing.", "trigger"),
    gauge("scaler_gossip_members", "Expected members by what the nodes make of each other.", "verdict"),
    gauge("scaler_gossip_expected", "E as the autoscaler's own gossip knows it."),
    gauge("scaler_gossip_sight", "Expected members that the autoscaler's own gossip reaches."),
    counter("scaler_decisions_total", "Decisions made."),
    counter("scaler_orders_total", "Orders of nodes that plans have changed."),
    counter(
        "scaler_refusals_total", "What was wanted and not done, in each decision, by the rule's name.", "rule"
    ),
    counter("scaler_documents_dropped_total", "Documents of nodes that were not used, by reason.", "reason"),
)
"""Every family, in the order of the page. docs/reference/metrics.md is generated from it."""
