package compute

import (
	"strconv"
	"strings"
)

// FormatSlots writes key slots as the reference of a key_slot thing: "0,1".
func FormatSlots(slots []int) string {
	words := make([]string, len(slots))
	for i, s := range slots {
		words[i] = strconv.Itoa(s)
	}
	return strings.Join(words, ",")
}

// ParseSlots reads what FormatSlots wrote. Invalid: there is none, or something else.
func ParseSlots(text string) ([]int, error) {
	var slots []int
	for word := range strings.SplitSeq(text, ",") {
		slot, err := strconv.Atoi(word)
		if err != nil || slot < 0 {
			return nil, Errorf(Invalid, "%q are no key slots", text)
		}
		slots = append(slots, slot)
	}
	return slots, nil
}
