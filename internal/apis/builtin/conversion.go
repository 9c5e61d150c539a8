package builtin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
)

// object is a pointer to an API type.
type object[T any] interface {
	*T
	codec.Object
}

// hubVersion returns the hub version of a kind whose Go type is T. defaults may be nil.
func hubVersion[T any, P object[T]](gvk schema.GroupVersionKind, defaults func(*T)) *codec.Version {
	v := &codec.Version{GVK: gvk, New: func() codec.Object { return P(new(T)) }}
	if defaults != nil {
		v.Default = func(obj codec.Object) { defaults((*T)(obj.(P))) }
	}
	return v
}

// ConvertedVersion returns a non-hub version of a kind. T is the Go type of the version, and H is the Go type
// of the hub version. defaults may be nil. The results of toHub and fromHub may share memory with their
// argument.
func ConvertedVersion[T, H any, P object[T], Q object[H]](gvk schema.GroupVersionKind, defaults func(*T), toHub func(*T) (*H, error), fromHub func(*H) (*T, error)) *codec.Version {
	v := hubVersion[T, P](gvk, defaults)
	v.ToHub = func(obj codec.Object) (codec.Object, error) {
		hub, err := toHub((*T)(obj.(P)))
		if err != nil {
			return nil, fmt.Errorf("convert %s: %w", gvk, err)
		}
		return Q(hub), nil
	}
	v.FromHub = func(obj codec.Object) (codec.Object, error) {
		out, err := fromHub((*H)(obj.(Q)))
		if err != nil {
			return nil, fmt.Errorf("convert to %s: %w", gvk, err)
		}
		return P(out), nil
	}
	return v
}

// relabelled returns a version that differs from the hub version only in its group and version.
func relabelled(hub *codec.Version, gv schema.GroupVersion) *codec.Version {
	same := func(obj codec.Object) (codec.Object, error) { return obj, nil }
	return &codec.Version{GVK: gv.WithKind(hub.GVK.Kind), New: hub.New, Default: hub.Default, ToHub: same, FromHub: same}
}
