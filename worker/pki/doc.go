// Package pki is the certificate authority of strongroom's own processes: hosts, gateways
// and the api know each other by certificates that it issued, and by nothing else.
//
// A certificate names who has it by a URI, strongroom://host/<uuid>, strongroom://gateway,
// strongroom://api and so on. DNS names and addresses say nothing: a host may be reached under
// any of them.
package pki
