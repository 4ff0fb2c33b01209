package compute

import (
	"encoding/base64"
	"strings"
	"unicode"
)

// DecodeUserData gives the bytes of a request's user_data: base64, in which blanks and line ends do not count, as tools wrap it (K26).
func DecodeUserData(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text))
}
