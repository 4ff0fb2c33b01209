package volume_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilterForms checks the ways in which clients write a filter down.
func TestFilterForms(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, "")).version(t, newest)
	b.create("one", `{"a":"b","q":"it's \"so\"","n":"x\ty","u":"é€😀","none":null,"e":""}`)
	b.create("two", `{"a":"c"}`)
	for text, want := range map[string][]string{
		`{"a":"b"}`: {"one"}, `{'a':'b'}`: {"one"}, ` { 'a' : "b" , } `: {"one"}, `{u'a': u'b'}`: {"one"}, `{'a':'b','n':'x\ty'}`: {"one"},
		`{'q':'it\'s "so"'}`: {"one"}, `{"q":"it's \"so\""}`: {"one"}, `{'a':'\x62'}`: {"one"}, `{'u':'\xe9\u20ac\U0001f600'}`: {"one"}, `{'u':'é€😀'}`: {"one"},
		`{"none":null}`: {"one"}, `{'none': None}`: {"one"}, `{'e':''}`: {"one"}, `{'a':None}`: {}, `{'none':''}`: {}, `{'a':'\d'}`: {},
		`{'a':'b','a':'c'}`: {"two"}, `{'missing':None}`: {}, `{}`: {"two", "one"}, `{ }`: {"two", "one"},
	} {
		require.Equal(t, want, b.do(admin, "GET", "/types?extra_specs="+url.QueryEscape(text), "").names(), text)
	}
	for _, text := range []string{
		`{'a'}`, `{'a':}`, `{'a':'b'`, `{'a':'b}`, `{'a':'b'}}`, `{,}`, `{'a':'b',,}`, `{a:'b'}`, `{'a':b}`, `{'a':'b' 'c'}`, `{'a':'\x6'}`, `{'a':'\U00110000'}`, `{'a':'\`,
		"{'a':'\n'}", `{'a':1}`, `{'a':['b']}`, `{'a':True}`, `('a','b')`, `__import__('os')`, `{"a":{"b":"c"}}`, `nonsense`,
	} {
		require.Equal(t, 400, b.do(admin, "GET", "/types?extra_specs="+url.QueryEscape(text), "").code, text)
	}
}
