package podspec

import (
	"strings"
	"testing"
)

func TestIsLatest(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0123456789abcdef", 4)
	tests := map[string]bool{
		"nginx":                                true,
		"nginx:latest":                         true,
		"nginx:1.27":                           false,
		"nginx:Latest":                         false,
		"library/nginx":                        true,
		"docker.io/library/nginx":              true,
		"quay.io/a/b/c:latest":                 true,
		"quay.io/a/b/c:v1":                     false,
		"localhost/x":                          true,
		"localhost:5000/x":                     true,
		"localhost:5000/x:latest":              true,
		"Registry/x":                           true, // the first component is a host, because it contains a capital letter
		"[::1]:5000/x":                         true,
		"[fd00::1]/x:latest":                   true,
		"a.b-c.d:443/e":                        true,
		"a__b/c.d/e---f":                       true,
		"nginx@sha256:" + hash:                 false,
		"nginx:latest@sha256:" + hash:          true,
		"nginx:1.27@sha256:" + hash:            false,
		"a/b@sha512:" + hash + hash:            false,
		"a:latest@sha512:" + hash + hash:       true,
		"a:latest@sha384:" + hash[:32]:         false,
		"a@sha256:" + hash + "@sha256:" + hash: false,
		hash:                                   false, // an image ID
		hash[1:]:                               true,
		strings.Repeat("a", 247):               true,
		strings.Repeat("a", 248):               false, // the path of an official image also includes "library/"
		"quay.io/" + strings.Repeat("a", 255):  true,
		"quay.io/" + strings.Repeat("a", 256):  false,

		// Invalid names.
		"":                         false,
		"Nginx":                    false,
		"quay.io/Nginx:latest":     false,
		"/nginx":                   false,
		"nginx/":                   false,
		"a//b":                     false,
		"-a":                       false,
		"a-":                       false,
		"a..b":                     false,
		"a___b":                    false,
		"a_-b":                     false,
		"a b":                      false,
		"ä":                        false,
		"a:latest:latest":          false,
		"a:":                       false,
		"a@":                       false,
		"nginx@sha256:0123":        false,
		"nginx:latest@sha256:0123": false,
		"nginx:latest@md5:" + hash: false,
		"nginx:latest@sha256:" + strings.ToUpper(hash): false,
		"quay.io:/a":  false,
		"quay.io:x/a": false,
		"quay..io/a":  false,
		"-quay.io/a":  false,
		"[::g]/a":     false,
		"[::1/a":      false,
		"[]/a":        false,
	}
	for image, want := range tests {
		if got := isLatest(image); got != want {
			t.Errorf("%q is latest: %t, want %t", image, got, want)
		}
	}
}

// FuzzIsLatest checks that isLatest returns false for names that are obviously invalid, and that adding the
// tag latest does not change a result of true.
func FuzzIsLatest(f *testing.F) {
	for _, image := range []string{"nginx", "quay.io:5000/a/b:latest", "[::1]:1/a", "a@sha256:0", "a__b:x"} {
		f.Add(image)
	}
	f.Fuzz(func(t *testing.T, image string) {
		if !isLatest(image) {
			return
		}
		if strings.ContainsAny(image, " \t\n\x00") || image == "" {
			t.Errorf("%q is mistaken for an image", image)
		}
		last := image[strings.LastIndexByte(image, '/')+1:]
		if !strings.ContainsAny(last, ":@") && !isLatest(image+":latest") {
			t.Errorf("%q with the tag latest does not count as latest", image)
		}
	})
}
