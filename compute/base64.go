package compute

import (
	"encoding/base64"
	"strings"
	"unicode"
)

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// DecodeBase64 reads base64 of a request, such as its user_data, as Nova does, whose decoder is Python's (K26): characters that are not of the alphabet
// do not count, and neither does what stands behind the padding of the last group. Invalid: the padding is missing, or there is other text than ASCII.
func DecodeBase64(text string) ([]byte, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		return nil, Errorf(Invalid, "base64 is ASCII")
	}
	digits, pads := make([]byte, 0, len(text)), 0
	for _, c := range []byte(text) {
		switch {
		case c == '=':
			pads++
		case strings.IndexByte(base64Alphabet, c) >= 0:
			digits, pads = append(digits, c), 0
		}
		if group := len(digits) % 4; group >= 2 && group+pads == 4 {
			return base64.RawStdEncoding.DecodeString(string(digits))
		}
	}
	out, err := base64.StdEncoding.DecodeString(string(digits))
	if err != nil {
		return nil, Errorf(Invalid, "the padding of base64 is missing")
	}
	return out, nil
}
