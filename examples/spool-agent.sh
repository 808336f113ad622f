#!/bin/sh
# An agent for a spool, in shell: spool-agent.sh DIR COMMAND [ARGS]. Runs COMMAND for each job until none is left.
# COMMAND gets prompt.json on standard input and prints the result, which is JSON. docs/spool.md has the protocol.
set -u
spool=$1 && shift
nonce() { od -An -N8 -tx1 /dev/urandom | tr -d ' \n'; }
id=sh-$(nonce) && mine=$spool/in-progress/$id
boot=$(cat /proc/sys/kernel/random/boot_id) start=$(sed 's/.*) //' "/proc/$$/stat" | cut -d' ' -f20)
field() { [ ! -e "$1/job.json" ] || sed -n "s/.*\"$2\": *\"\{0,1\}\([^,\"}]*\).*/\1/p" "$1/job.json"; }
change() { # FOLDER FROM TO: appends to the history, and replaces job.json, with the fields of others kept
  n=$(($(field "$1" moves) + 1)) try=$(field "$1" attempt)
  [ "$3" != in-progress ] || try=$((${try:-0} + 1))
  printf '{"n":%d,"at":"%s","from":"%s","to":"%s","actor":"%s","attempt":%d}\n' "$n" "$(date -u +%FT%TZ)" "$2" "$3" "$id" "$try" >>"$1/history.jsonl" &&
    { cat "$1/job.json" 2>/dev/null || echo '{"schema-version":"1.0.0"}'; } | tr '\n' ' ' |
    sed -E "s/,? *\"(status|moves|attempt|agent)\": *(\"[^\"]*\"|[0-9]+)//g; s/\{ *,/{/; s/\}[[:space:]]*$/,\"status\":\"$3\",\"moves\":$n,\"attempt\":$try,\"agent\":\"$id\"}/" >"$1/job.json.tmp" &&
    sync "$1/job.json.tmp" && mv "$1/job.json.tmp" "$1/job.json"
}
unlock() { # JOB NONCE: moves the lock aside, and removes it if it is ours
  aside=$spool/tmp/$id-old-$2 && mv -T "$spool/incoming/$1.lock" "$aside" 2>/dev/null || return 0
  grep -q "$2" "$aside/owner.json" || mv -T "$aside" "$spool/incoming/$1.lock" && rm -rf "$aside"
}
run() { # JOB COMMAND
  waiting=$spool/incoming/$1 job=$mine/$1 name=$1 && shift
  [ ! -e "$waiting/job.json" ] || [ "$(field "$waiting" status)$(field "$waiting" schema-version)" = queued1.0.0 ] || return 0
  mkdir -p "$mine" && mv -T "$waiting" "$job" 2>/dev/null &&
    sync "$spool/incoming" "$spool/in-progress" "$mine" && change "$job" queued in-progress || return 0
  end=succeeded
  [ -e "$job/result.json" ] || { "$@" <"$job/prompt.json" >"$job/result.json.tmp" && sync "$job/result.json.tmp" && mv "$job/result.json.tmp" "$job/result.json"; } || end=failed
  rm -f "$job/result.json.tmp"
  change "$job" in-progress $end && sync "$job" && mv -T "$job" "$spool/completed/$end/$name" && sync "$mine" "$spool/completed/$end"
}
for prompt in "$spool"/incoming/*/prompt.json; do
  folder=${prompt%/prompt.json} && name=${folder##*/} key=$(nonce) && lock=$spool/tmp/$id-$key
  [ "$name" != '*' ] && [ ! -L "$folder" ] && [ ! -L "$prompt" ] && [ -f "$prompt" ] && [ "$name" = "${name%.lock}" ] && [ -z "$(find "$folder.lock" "$spool"/completed/*/"$name" "$spool/jobs/stale/$name" -maxdepth 0 2>/dev/null)" ] || continue
  mkdir "$lock" && printf '{"hostname":"%s","boot":"%s","pid":%d,"start":"%s","namespace":"%s","nonce":"%s","actor":"%s"}\n' "$(hostname)" "$boot" $$ "$start" "$(readlink /proc/self/ns/pid)" "$key" "$id" >"$lock/owner.json"
  if mv -T "$lock" "$folder.lock" 2>/dev/null; then run "$name" "$@"; unlock "$name" "$key"; else rm -r "$lock"; fi
done
rmdir "$mine" 2>/dev/null || true
