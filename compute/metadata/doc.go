// Package metadata gives the documents that a guest reads about itself, from the
// metadata service or from its config drive, in the forms of OpenStack and EC2.
package metadata
