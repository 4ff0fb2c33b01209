// Package access decides who may ask Temporal what, by the certificates that strongroom's
// authority issued. Temporal itself does not tell hosts and the control plane apart, and
// does not sign the tokens with which tasks are answered.
package access
