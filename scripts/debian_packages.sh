#!/bin/bash
# Debian packages that tests use. As root they are installed, and no daemon of theirs is started; without
# root this says what lacks, and the tests that need it skip.
set -euo pipefail

# command:package
needed=(
  mosquitto:mosquitto
  promtool:prometheus
  amtool:prometheus-alertmanager
  gcc:gcc
  ps:procps
  systemd-analyze:systemd
)
policy=/usr/sbin/policy-rc.d
PATH=$PATH:/usr/sbin:/sbin

missing=()
for pair in "${needed[@]}"; do
  command -v "${pair%%:*}" > /dev/null || missing+=("${pair#*:}")
done
# gcc without the headers of libc compiles nothing.
[[ -e /usr/include/stdio.h ]] || missing+=(libc6-dev)
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $(id -u) != 0 ]] || ! command -v apt-get > /dev/null; then
  echo "not installed: ${missing[*]} (needs root and apt-get); tests that use them will skip" >&2
  exit 0
fi

# invoke-rc.d and deb-systemd-invoke ask this program before they start anything; 101 forbids it.
kept=$(mktemp -d)
restore() {
  rm -f "$policy"
  if [[ -e $kept/policy-rc.d || -L $kept/policy-rc.d ]]; then
    cp -a "$kept/policy-rc.d" "$policy"
  fi
  rm -rf "$kept"
}
trap restore EXIT
if [[ -e $policy || -L $policy ]]; then
  cp -a "$policy" "$kept/policy-rc.d"
fi
trap 'exit 130' INT TERM HUP
rm -f "$policy"
printf '#!/bin/sh\nexit 101\n' > "$policy"
chmod 755 "$policy"

echo "installing ${missing[*]} (no daemon is started)"
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -y -q --no-install-recommends "${missing[@]}")
"${install[@]}" < /dev/null > "$kept/log" 2>&1 \
  || { apt-get update -q < /dev/null > "$kept/log" 2>&1 && "${install[@]}" < /dev/null >> "$kept/log" 2>&1; } \
  || { tail -n 40 "$kept/log" >&2; exit 1; }
