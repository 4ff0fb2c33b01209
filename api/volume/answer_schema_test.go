package volume_test

import (
	. "strongroom/api/answertest" //nolint:revive // the words of schemas
)

// answers have the schema of each route's answers.
var answers = VolumeAnswers

// versionsAnswer lists the versions of the API.
var versionsAnswer = One("versions", List(Object(Keys{
	"id": Enum("v3.0"), "status": Enum("CURRENT"), "version": Enum(newest), "min_version": Enum(oldest), "updated": Seconds,
	"links": Schema{"prefixItems": []Schema{
		Object(Keys{"rel": Enum("describedby"), "type": Text, "href": Href}), Object(Keys{"rel": Enum("self"), "href": Href}),
	}, "minItems": 2, "maxItems": 2},
	"media-types": List(Object(Keys{"base": Text, "type": Text})),
})))
