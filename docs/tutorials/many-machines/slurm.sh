#!/bin/bash
# One graph on eight machines of eight ranks each, under Slurm: `sbatch slurm.sh`. Its parts were made before, on one machine:
#   tautcut shard edges/*.parquet --parts 8x8 --memory 200GB --out /shared/web.shards
#SBATCH --job-name=tautcut
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1        # one torchrun for each machine, which starts its ranks
#SBATCH --cpus-per-task=64
#SBATCH --mem=0                    # all memory of the machine: what a rank takes is foreseen, and refused with the sum
##SBATCH --gpus-per-node=8         # with DEVICE=cuda below: a GPU for each rank
#SBATCH --time=24:00:00
#SBATCH --requeue                  # a machine that is lost: the job is queued again, and goes on from its checkpoint
#SBATCH --signal=B:USR1@300        # five minutes before the time is up: see again() below
#SBATCH --open-mode=append         # what was said before stays in the log
set -euo pipefail

SHARDS=/shared/web.shards          # on a file system that all machines see, and the folder of the labels too
OUT=/shared/web-labels
CLUSTERS=100
DEVICE=cpu                         # or cuda
RANKS=8                            # for each machine; nodes times this is the number of parts

# Without this torchrun keeps the addresses of ranks itself, those of the dead too, and ranks that are started again look
# for each other there: a kill was survived once in five. With it rank 0 keeps them, and a new start begins with none.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
# torchrun would have every rank compute on one thread.
export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / RANKS))
# Where machines have several networks, name the one between them: it must be private, since nothing asks who is there.
# export GLOO_SOCKET_IFNAME=ib0 NCCL_SOCKET_IFNAME=ib0

# The time is nearly up: end now, without a goodbye, and go on from the checkpoint of the last minute when there is time again.
# (SIGTERM would make the ranks write the best labels so far, and the run would be over.)
again() {
    scancel --signal=KILL "$SLURM_JOB_ID" || true
    scontrol requeue "$SLURM_JOB_ID"
}
trap again USR1

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
srun --kill-on-bad-exit=1 torchrun \
    --nnodes="$SLURM_JOB_NUM_NODES" \
    --nproc-per-node="$RANKS" \
    --rdzv-backend=c10d \
    --rdzv-endpoint="$first:$((20000 + SLURM_JOB_ID % 20000))" \
    --rdzv-id="$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}" \
    --max-restarts=3 \
    -m tautcut cluster "$SHARDS" -k "$CLUSTERS" --device "$DEVICE" --out "$OUT" --resume --verbose &
wait $!                            # in the background, so that the trap is heard meanwhile
