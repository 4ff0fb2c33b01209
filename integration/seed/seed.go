// Package seed says what of the tests is part of a run: the samples of those with too many cases for every run, and which tests are deep, and no part of ./task test.
package seed

import (
	"cmp"
	"flag"
	"os"
)

// Variable holds any text that chooses a sample. The same text chooses the same.
const Variable = "STRONGROOM_TEST_SEED"

// fixed is the default, so that each commit is judged by the same tests.
const fixed = "204db68fe08d"

// Text returns the text that chooses the sample.
func Text() string { return cmp.Or(os.Getenv(Variable), fixed) }

// RetryVariable is set, to anything, in the second try of a failed test (deploy/with). -run names that test then, and it has the same cases.
const RetryVariable = "STRONGROOM_TEST_RETRY"

// Asked returns the pattern of the tests that somebody asked for by name, or "".
func Asked() string {
	if os.Getenv(RetryVariable) != "" {
		return ""
	}
	return flag.Lookup("test.run").Value.String()
}
