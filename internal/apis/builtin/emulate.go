package builtin

import (
	"reflect"

	"mainstay.dev/mainstay/internal/codec"
)

// emulate changes kind to match the emulated version. Objects are then stored in an API version that the
// emulated version has, and clients cannot use fields that the emulated version lacks.
func (r *resource) emulate(env *Env, kind *codec.Kind) {
	known := r.knownVersion(env, kind)
	for i, v := range kind.Versions {
		fields := env.Release.FieldsOf(reflect.TypeOf(v.New()).Elem(), v.GVK.Version)
		if fields == nil {
			continue
		}
		emulated := *v
		emulated.UnknownFields = func(obj codec.Object) []string { return fields.Unknown(obj) }
		kind.Versions[i] = &emulated
		if kind.Hub == v {
			kind.Hub = &emulated
		}
		if kind.Stored == v {
			kind.Stored = &emulated
		}
		if known == v {
			known, env.built.lacking[kind] = &emulated, fields
		}
	}
	if kind.Stored == nil && known != kind.Hub {
		kind.Stored = known
	}
}

// knownVersion returns the first API version that uses the Go type of the hub version and that exists in the
// emulated version. If there is no such version, it returns the hub version.
func (r *resource) knownVersion(env *Env, kind *codec.Kind) *codec.Version {
	for _, v := range kind.Versions {
		if reflect.TypeOf(v.New()).Elem() == r.goType && env.Release.HasKind(v.GVK) {
			return v
		}
	}
	return kind.Hub
}
