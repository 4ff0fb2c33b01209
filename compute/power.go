package compute

// Found gives the vm_state and the power_state of a server at rest whose machine is
// found running, paused, or in any other state, which counts as off. A rescued server
// stays rescued: that is what its rescue disk makes it. One that was resized stays resized until
// somebody decides. A suspended one whose machine is off is as it was.
func Found(was VMState, power PowerState) (VMState, PowerState) {
	vm := VMStopped
	switch power {
	case PowerRunning:
		vm = VMActive
	case PowerPaused:
		vm = VMPaused
	default:
		power = PowerShutdown
	}
	if was == VMRescued || was == VMResized || was == VMSuspended && vm == VMStopped {
		vm = was
	}
	return vm, power
}

// Runs reports whether the server has a guest that runs or is paused, as far as is known.
func (s Server) Runs() bool {
	return s.VMState == VMActive || s.VMState == VMPaused || s.PowerState == PowerRunning || s.PowerState == PowerPaused
}
