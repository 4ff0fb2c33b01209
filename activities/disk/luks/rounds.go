package luks

import "encoding/base64"

// The rounds of hashing of a key slot. A guess at a text that a person chose must cost
// its hash 600,000 times (OWASP's number for PBKDF2 with SHA-256). Nobody guesses 64
// random bytes.
const (
	roundsOfRandom = 10_000
	roundsOfText   = 600_000
)

const (
	randomBytes = 64
	// mostRepeats: of 64 random bytes some 7 repeat another one; more than 20 do in
	// less than one of a million passphrases. Text repeats half of its letters.
	mostRepeats = 20
)

// Rounds gives how many rounds of hashing protect a passphrase: fewer for those of the
// form in which strongroom makes its own, the base64 of 64 random bytes. Those of
// users are of any strength.
func Rounds(passphrase []byte) int {
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(passphrase)))
	defer clear(raw)
	n, err := base64.StdEncoding.Strict().Decode(raw, passphrase)
	if err != nil || n != randomBytes {
		return roundsOfText
	}
	var seen [256]bool
	repeats := 0
	for _, b := range raw[:n] {
		if seen[b] {
			repeats++
		}
		seen[b] = true
	}
	if repeats > mostRepeats {
		return roundsOfText
	}
	return roundsOfRandom
}
