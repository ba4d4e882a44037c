#!/usr/bin/env bash
# A client of bash and jq: the text form with answers in JSON, over TCP. Arguments: host, port.
set -euo pipefail
exec 3<> "/dev/tcp/$1/$2"
cat >&3 <<'LINES'
hello 2 json name "client.sh"
$db := lookup database: DataBase
? get $db.matching({prefix: "", visits: 0}), $db.fetch("ann").visits()
bye
LINES
jq --raw-output '.results[]?.value | tostring' <&3
