package compute

import "strings"

// ParseBool reads a boolean as OpenStack's services do when they are strict:
// 1, t, true, on, y, yes and 0, f, false, off, n, no in any case, with space
// around them. Anything else is Invalid.
func ParseBool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "1", "t", "true", "on", "y", "yes":
		return true, nil
	case "0", "f", "false", "off", "n", "no":
		return false, nil
	}
	return false, Errorf(Invalid, "Unrecognized value '%s', acceptable values are: "+
		"'0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'", text)
}

// agreed reads what the extra spec hw:key of the flavor and the property hw_key
// of the image say together. nil: neither says anything; an empty value counts
// as nothing. Both may say the same in different words. A disagreement is a
// Conflict, a value that parse refuses is what parse says, with its origin.
func agreed[T comparable](f Flavor, img Image, key string, parse func(string) (T, error)) (*T, error) {
	flavorText, imageText := f.ExtraSpecs["hw:"+key], img.Properties["hw_"+key]
	var flavorValue, imageValue *T
	if flavorText != "" {
		value, err := parse(flavorText)
		if err != nil {
			return nil, Errorf(KindOf(err), "Flavor %s has an invalid hw:%s extra spec. %w", f.Name, key, err)
		}
		flavorValue = &value
	}
	if imageText != "" {
		value, err := parse(imageText)
		if err != nil {
			return nil, Errorf(KindOf(err), "Image %s has an invalid hw_%s property. %w", img.Name, key, err)
		}
		imageValue = &value
	}
	switch {
	case flavorValue == nil:
		return imageValue, nil
	case imageValue != nil && *imageValue != *flavorValue:
		return nil, Errorf(Conflict, "Flavor %s has hw:%s extra spec explicitly set to %s, conflicting with image %s "+
			"which has hw_%s explicitly set to %s.", f.Name, key, flavorText, img.Name, key, imageText)
	}
	return flavorValue, nil
}
