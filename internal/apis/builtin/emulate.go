package builtin

import (
	"reflect"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/emulation"
)

// emulate changes a kind into that of an emulated version: its objects are stored in an API version
// that the emulated version has, and fields that it does not have are unknown to clients.
func (r *resource) emulate(kind *codec.Kind, release *emulation.Release) {
	if release == nil {
		return
	}
	for i, v := range kind.Versions {
		fields := release.FieldsOf(reflect.TypeOf(v.New()).Elem(), v.GVK.Version)
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
	}
	if known := r.knownVersion(kind, release); kind.Stored == nil && known != kind.Hub {
		kind.Stored = known
	}
}

// knownVersion returns the first version with the type of the hub version that the release has; the
// hub version if there is none.
func (r *resource) knownVersion(kind *codec.Kind, release *emulation.Release) *codec.Version {
	for _, v := range kind.Versions {
		if reflect.TypeOf(v.New()) == reflect.PointerTo(r.goType) && release.HasKind(v.GVK) {
			return v
		}
	}
	return kind.Hub
}

// lackingFields returns the fields of the hub version that a release lacks.
func (r *resource) lackingFields(kind *codec.Kind, release *emulation.Release) *emulation.Fields {
	if release == nil {
		return nil
	}
	return release.FieldsOf(r.goType, r.knownVersion(kind, release).GVK.Version)
}
