package storage

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// TestTokensOfKubeAPIServer decodes tokens that a kube-apiserver created.
func TestTokensOfKubeAPIServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		token, start string
		revision     int64
	}{
		{"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mjg0LCJzdGFydCI6Ii9jMlx1MDAwMCJ9", "/p/c2\x00", 284},
		{"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9", "/p/a\x00", -1},
	} {
		start, revision, err := decodeContinue(c.token, "/p/")
		if err != nil || start != c.start || revision != c.revision {
			t.Errorf("token of %q at %d: %q at %d, %v", c.start, c.revision, start, revision, err)
		}
		if c.revision > 0 && encodeContinue(start, "/p/", revision) != c.token {
			t.Errorf("encodeContinue returns another token for %q", c.start)
		}
	}
}

func FuzzDecodeContinue(f *testing.F) {
	f.Add("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mjg0LCJzdGFydCI6Ii9jMlx1MDAwMCJ9")
	f.Add("e30")
	f.Add("nonsense")
	f.Add(encodeContinue("/p/../../secrets/x", "/p/", 7))
	f.Add(encodeContinue("/p//", "/p/", -1))
	const prefix = "/registry/pods/ns/"
	f.Fuzz(func(t *testing.T, token string) {
		start, revision, err := decodeContinue(token, prefix)
		if err != nil {
			if !errors.Is(err, errContinue) {
				t.Errorf("error %v does not wrap errContinue", err)
			}
			return
		}
		if !strings.HasPrefix(start, prefix) || start >= kv.PrefixEnd(prefix) || revision == 0 {
			t.Errorf("token leads to %q at %d", start, revision)
		}
		again, revision2, err := decodeContinue(encodeContinue(start, prefix, revision), prefix)
		if err != nil || again != start || revision2 != revision {
			t.Errorf("%q at %d becomes %q at %d, %v", start, revision, again, revision2, err)
		}
	})
}

func FuzzParseResourceVersion(f *testing.F) {
	for _, s := range []string{"", "0", "1", "-1", "abc", "18446744073709551615", "18446744073709551616", "007", "+1", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		revision, err := ParseResourceVersion(s)
		if err != nil {
			if fault := (*field.Error)(nil); !errors.As(err, &fault) {
				t.Errorf("error %v is not a *field.Error", err)
			}
			return
		}
		if revision < 0 || strings.Trim(s, "0123456789") != "" {
			t.Errorf("%q is parsed as %d", s, revision)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add("ns", "a")
	f.Add("", "a")
	f.Add("..", "a")
	f.Add("ns", "a/b")
	f.Add("ns", "a\x00")
	namespaced, global := testStore(f, true), testStore(f, false)
	f.Fuzz(func(t *testing.T, namespace, name string) {
		full := types.NamespacedName{Namespace: namespace, Name: name}
		if key, err := namespaced.Key(full); err == nil {
			if namespaced.nameOf(key) != full || strings.Count(key, "/") != 4 {
				t.Errorf("key of %q is %q", full, key)
			}
			if prefix, err := namespaced.scope(namespace); err != nil || !strings.HasPrefix(key, prefix) {
				t.Errorf("key %q is not in %q, %v", key, prefix, err)
			}
		}
		if key, err := global.Key(types.NamespacedName{Name: name}); err == nil {
			if global.nameOf(key).Name != name || strings.Count(key, "/") != 3 {
				t.Errorf("key of %q is %q", name, key)
			}
		}
	})
}

func testStore(t testing.TB, namespaced bool) *Store {
	version := &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), New: func() codec.Object { return &corev1.Pod{} }}
	s, err := New(Config{Backend: noBackend{}, ResourcePrefix: "pods", Namespaced: namespaced, Kind: &codec.Kind{Hub: version}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// noBackend is a backend that must not be called.
type noBackend struct{ kv.Backend }

func TestConfigValidation(t *testing.T) {
	t.Parallel()
	_, err := New(Config{ResourcePrefix: "/pods/", MaxObjectBytes: -1})
	for _, want := range []string{"Backend", "Kind", `"/pods/"`, "-1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not contain %s", err, want)
		}
	}
}
