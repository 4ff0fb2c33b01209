// Package securepv prepares Kubernetes workloads for encrypted persistent volumes (RFC 009): it
// reads their YAML, finds the annotation secure-pv, and injects the initializer, which opens a
// block device and gives the workload the file system in it.
//
// It is pure: text in, text out. What the initializer does in the pod is in another package.
package securepv
