#!/usr/bin/env bash
# The 8B recipe on one or several nodes.
#
#   configs/train/verl/launch.sh check [KEY=VALUE...]    both configs are composed and validated; needs no GPU
#   configs/train/verl/launch.sh sft   [KEY=VALUE...]    on every node, with torchrun
#   configs/train/verl/launch.sh grpo  [KEY=VALUE...]    on every node: the first becomes Ray's head and trains, the others join it
#
# From the environment:
#   NNODES (1), NODE_RANK (0), HEAD_ADDR (this host; needed with several nodes), GPUS (all this node has),
#   PYTHON (python of the verl environment), RAY_PORT (6379), MASTER_PORT (29500), JOIN_S (600: how long nodes are waited for)
# The repository and the data must lie at the same path on every node.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
cd -- "$here/../../.."

die() { printf '%s\n' "$*" >&2; exit 2; }

verb=${1:-}
[[ $# -gt 0 ]] && shift
PYTHON=${PYTHON:-python}
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
RAY_PORT=${RAY_PORT:-6379}
MASTER_PORT=${MASTER_PORT:-29500}
JOIN_S=${JOIN_S:-600}
[[ $NNODES =~ ^[1-9][0-9]*$ ]] || die "NNODES=$NNODES is no number of nodes"
[[ $NODE_RANK =~ ^[0-9]+$ && $NODE_RANK -lt $NNODES ]] || die "NODE_RANK=$NODE_RANK is not below NNODES=$NNODES"
if ((NNODES > 1)); then
    [[ -n ${HEAD_ADDR:-} ]] || die "with several nodes HEAD_ADDR must name the first one"
else
    HEAD_ADDR=${HEAD_ADDR:-127.0.0.1}
fi

# The judge's processes belong to Ray workers that reserve no GPU; they must see the GPUs all the same.
export RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
export TOKENIZERS_PARALLELISM=false

overrides() { # the lines of a file that are no comments, into the array `lines`
    mapfile -t lines < <(grep -vE '^[[:space:]]*(#|$)' -- "$1")
}

gpus() {
    if [[ -n ${GPUS:-} ]]; then
        printf '%s\n' "$GPUS"
        return
    fi
    command -v nvidia-smi >/dev/null || die "no nvidia-smi here: GPUS must say how many GPUs this node has"
    nvidia-smi --list-gpus | wc -l
}

ray() { "$PYTHON" -m ray.scripts.scripts "$@"; }

sft() {
    overrides "$here/sft.overrides"
    local count
    count=$(gpus)
    exec "$PYTHON" -m torch.distributed.run --nnodes "$NNODES" --node-rank "$NODE_RANK" --nproc-per-node "$count" \
        --master-addr "$HEAD_ADDR" --master-port "$MASTER_PORT" -m verl.trainer.sft_trainer \
        "${lines[@]}" "trainer.nnodes=$NNODES" "trainer.n_gpus_per_node=$count" "$@"
}

grpo() {
    overrides "$here/grpo.overrides"
    local count
    count=$(gpus)
    if ((NODE_RANK > 0)); then
        # Returns when the head goes away.
        ray start --address "$HEAD_ADDR:$RAY_PORT" --num-gpus "$count" --block
        return
    fi
    ray start --head --node-ip-address "$HEAD_ADDR" --port "$RAY_PORT" --num-gpus "$count"
    trap 'ray stop >/dev/null' EXIT
    export RAY_ADDRESS="$HEAD_ADDR:$RAY_PORT"
    "$PYTHON" - "$NNODES" "$JOIN_S" <<'PYTHON_END'
import sys, time
import ray

wanted, patience_s = int(sys.argv[1]), float(sys.argv[2])
ray.init(address="auto", log_to_driver=False)
until = time.monotonic() + patience_s
while (here := sum(node["Alive"] for node in ray.nodes())) < wanted:
    if time.monotonic() > until:
        sys.exit(f"{here} of {wanted} nodes joined within {patience_s:g} s")
    time.sleep(2)
PYTHON_END
    "$PYTHON" -m verl.trainer.main_ppo "${lines[@]}" "trainer.nnodes=$NNODES" "trainer.n_gpus_per_node=$count" "$@"
}

case $verb in
check) exec "$PYTHON" "$here/check.py" "$@" ;;
sft) sft "$@" ;;
grpo) grpo "$@" ;;
*) die "usage: launch.sh check|sft|grpo [KEY=VALUE...]" ;;
esac
