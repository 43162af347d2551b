#!/usr/bin/env bash
# Judges what the agent left: the verdict in final-evaluation.json, 1 or 0 in reward.txt. Exits 0 in either case.
logs=${PTXBENCH_VERIFIER_LOGS:-/logs/verifier}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$logs"
echo 0 >"$logs/reward.txt"
# The task and the tool of the tests, not those that the agent could change.
python3 -I "$here/ptxbench.py" eval "${PTXBENCH_KERNEL:-/workspace/kernel.cu}" --task-config "$here/task.json" --json \
  >"$logs/final-evaluation.json"
code=$?
# Not judged is not failed: without a reward the trial counts as broken, and can be run again.
[ $code -ne 2 ] || [ ! -e "${PTXBENCH_KERNEL:-/workspace/kernel.cu}" ] || rm -f "$logs/reward.txt"
if [ $code -eq 0 ] && python3 - "$logs/final-evaluation.json" <<'PYTHON'; then
import json, sys
result = json.load(open(sys.argv[1], encoding="utf-8"))
sys.exit(0 if result.get("schema") == "ptxbench.eval.v1" and result.get("all_passed") is True else 1)
PYTHON
  echo 1 >"$logs/reward.txt"
fi
exit 0
