//go:build !amd64

package guest

func tscKHz() int { return 0 }
