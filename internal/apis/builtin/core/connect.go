package core

import (
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// connectSubresource declares a subresource that forwards requests to another server. options is the kind of
// the request options.
func connectSubresource(name, options string, storage func(env *builtin.Env, store *registry.Store) rest.Storage) builtin.Subresource {
	return builtin.Subresource{
		Name: name, Storage: storage,
		Version: &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind(options)},
	}
}

// streamMethods returns the methods that upgrade a connection. Browsers can only use GET.
func streamMethods() []string { return []string{http.MethodGet, http.MethodPost} }

// proxyMethods returns the HTTP methods that proxy subresources forward.
func proxyMethods() []string {
	return []string{
		http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
	}
}

// query decodes options from a URL query in the same way as kube-apiserver: it ignores unknown keys and, if a
// key has several values, uses the first one. err is the first decoding error.
type query struct {
	values url.Values
	err    error
}

// read decodes the values of a key with convert. It returns the zero value if the query does not contain the
// key or an earlier read has failed.
func read[T any](q *query, key string, convert func(in *[]string, out *T) error) T {
	var out T
	values, ok := q.values[key]
	if !ok || len(values) == 0 || q.err != nil {
		return out
	}
	q.err = convert(&values, &out)
	return out
}

func (q *query) text(key string) string { return q.values.Get(key) }

func (q *query) flag(key string) bool {
	return read(q, key, func(in *[]string, out *bool) error { return runtime.Convert_Slice_string_To_bool(in, out, nil) })
}

func (q *query) number(key string) *int64 {
	return read(q, key, func(in *[]string, out **int64) error {
		return runtime.Convert_Slice_string_To_Pointer_int64(in, out, nil)
	})
}

func (q *query) ports(key string) []int32 {
	return read(q, key, func(in *[]string, out *[]int32) error {
		return metav1.Convert_Slice_string_To_Slice_int32(in, out, nil)
	})
}

func (q *query) time(key string) *metav1.Time {
	return read(q, key, func(in *[]string, out **metav1.Time) error {
		*out = &metav1.Time{}
		return metav1.Convert_Slice_string_To_v1_Time(in, *out, nil)
	})
}
