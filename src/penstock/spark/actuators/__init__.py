"""What the control loop can turn on a real machine or cluster, each with a probe that really tries it."""
