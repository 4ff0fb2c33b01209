package domain

import "fmt"

// The oldest versions with which a host offers vTPMs (TPM-34), as libvirt counts them:
// 8009000 is 8.9.0. The document asks for libvirt 5.6.0; strongroom must be able to tell
// libvirt to leave a TPM's state when a domain is undefined, which 8.9.0 brought.
const (
	tpmLibvirt = 8_009_000
	tpmQEMU    = 2_011_000
)

// The oldest versions with which a host offers shares (SH-36): those of the document.
const (
	shareLibvirt = 6_002_000
	shareQEMU    = 5_000_000
)

// tooOldForShares says which of the two is older than virtiofs needs; "": neither.
func tooOldForShares(libvirt, qemu uint64) string {
	switch {
	case libvirt < shareLibvirt:
		return fmt.Sprintf("libvirt is %s, shares need %s", dotted(libvirt), dotted(shareLibvirt))
	case qemu < shareQEMU:
		return fmt.Sprintf("QEMU is %s, shares need %s", dotted(qemu), dotted(shareQEMU))
	}
	return ""
}

// tooOldForTPM says which of the two is older than vTPMs need; "": neither.
func tooOldForTPM(libvirt, qemu uint64) string {
	switch {
	case libvirt < tpmLibvirt:
		return fmt.Sprintf("libvirt is %s, vTPMs need %s", dotted(libvirt), dotted(tpmLibvirt))
	case qemu < tpmQEMU:
		return fmt.Sprintf("QEMU is %s, vTPMs need %s", dotted(qemu), dotted(tpmQEMU))
	}
	return ""
}

func dotted(v uint64) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000)
}
