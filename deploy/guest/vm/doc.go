// Package vm runs a test in a virtual machine of its own: Debian's stock kernel with
// the modules that the test names, the test binary itself as its init, the programs
// that it calls, an empty disk, and nothing else. So tests can use what only the
// kernel's root may do, the device mapper for one, on machines that do not let them,
// and nothing of it can be left behind.
//
//	func TestMain(m *testing.M) { os.Exit(vm.Main(m)) }
//
//	func TestVolumes(t *testing.T) {
//		if !vm.Inside() {
//			vm.Machine{Modules: []string{"dm-crypt"}, Programs: []string{"cryptsetup"}}.Run(t)
//			return
//		}
//		// root of the machine
//	}
//
// QEMU emulates the processor: kvm is not to be had everywhere, and a test that
// needs it would be skipped where it matters. Expect five seconds to boot.
package vm
