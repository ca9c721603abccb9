"""A stand-in for kube-apiserver 1.36: the same contract for what Holdfast calls, 501 for the rest.

`request` says what a call is, `authentication` and `rbac` who may, `store` holds the objects, `api` answers,
`control` is the side door by which a player writes the cluster's history.
"""
