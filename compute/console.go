package compute

import "crypto/sha256"

// ConsoleType says what of a server's machine a console connects to.
type ConsoleType string

// The types of consoles that there are, as the API names them.
const (
	ConsoleSerial ConsoleType = "serial" // its first serial port
	ConsoleNoVNC  ConsoleType = "novnc"  // its screen, keyboard and mouse
)

// ConsoleTokenHash is what is kept of a token that opens a console.
func ConsoleTokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
