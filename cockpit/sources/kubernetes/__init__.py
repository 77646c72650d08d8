"""Reads one RayCluster of KubeRay from the API server of Kubernetes, and deletes a pod."""
