package domain

import "strongroom/compute"

// Dismiss has the host expect a server no longer.
func (a *Activities) Dismiss(id compute.ServerID) { a.arrivals.dismiss(id) }
