"""What the API server of Kubernetes says of one RayCluster of KubeRay's, and the one thing that is asked of it: to delete a pod."""
