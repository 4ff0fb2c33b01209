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
	return agreedOn(f, img, "hw:"+key, "hw_"+key, Conflict, parse)
}

// agreedOn is agreed for an extra spec and a property of any names, whose disagreement is of any kind.
func agreedOn[T comparable](f Flavor, img Image, spec, property string, disagree Kind, parse func(string) (T, error)) (*T, error) {
	flavorText, imageText := f.ExtraSpecs[spec], img.Properties[property]
	var flavorValue, imageValue *T
	if flavorText != "" {
		value, err := parse(flavorText)
		if err != nil {
			return nil, Errorf(KindOf(err), "Flavor %s has an invalid %s extra spec. %w", f.Name, spec, err)
		}
		flavorValue = &value
	}
	if imageText != "" {
		value, err := parse(imageText)
		if err != nil {
			return nil, Errorf(KindOf(err), "Image %s has an invalid %s property. %w", img.Name, property, err)
		}
		imageValue = &value
	}
	switch {
	case flavorValue == nil:
		return imageValue, nil
	case imageValue != nil && *imageValue != *flavorValue:
		return nil, Errorf(disagree, "Flavor %s has %s extra spec explicitly set to %s, conflicting with image %s "+
			"which has %s explicitly set to %s.", f.Name, spec, flavorText, img.Name, property, imageText)
	}
	return flavorValue, nil
}
