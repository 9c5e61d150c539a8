package openapi

import (
	"fmt"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// kindsExtension is the extension that lists the kinds of a schema.
const kindsExtension = "x-kubernetes-group-version-kind"

// builtinSchema returns the schema of a built-in model for this document. DeleteOptions and WatchEvent are
// kinds of every group version. In their schemas, a v3 document lists some of the group versions, and the v2
// document lists all of them.
func (d *document) builtinSchema(f *inflater, i uint32) ([]byte, error) {
	schema, err := f.schema(i, d.version)
	name := d.library.name(i)
	if err != nil || d.part == nil || name != modelDelete && name != modelWatchEvent {
		return schema, err
	}
	if schema, err = keepKinds(schema, d.part.lists); err != nil {
		return nil, fmt.Errorf("kinds of %s: %w", name, err)
	}
	return schema, nil
}

// lists reports whether the v3 document of the part lists DeleteOptions and
// WatchEvent as kinds of a group version.
func (p *Part) lists(group, version string) bool {
	if !p.Custom {
		return group == "" && version == "v1" || group == p.GroupVersion.Group && version == p.GroupVersion.Version
	}
	// As in kube-apiserver, whose apiextensions server describes custom resources and contains only the
	// types of client-go.
	switch group {
	case "admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io":
		return false
	default:
		return true
	}
}

// keepKinds returns a copy of a schema that lists only the kinds for which keep returns true.
func keepKinds(schema []byte, keep func(group, version string) bool) ([]byte, error) {
	in, start := jsonplan.NewCursor(schema)
	list := in.Seek(start, kindsExtension)
	if list == jsonplan.Invalid {
		return schema, nil
	}
	kept := make([]byte, 0, len(schema))
	kept = append(append(kept, schema[:list]...), '[')
	separator := ""
	i, more := in.Enter(list)
	for more {
		group, _ := in.Text(in.Seek(i, "group"))
		in.Leave()
		version, _ := in.Text(in.Seek(i, "version"))
		in.Leave()
		end := in.Skip(i)
		if keep(group, version) {
			kept = append(append(kept, separator...), in.Raw(i, end)...)
			separator = ","
		}
		i, more = in.Next(end, ']')
	}
	if i == jsonplan.Invalid {
		return nil, fmt.Errorf("%s is not a list that can be read", kindsExtension)
	}
	return append(append(kept, ']'), schema[i:]...), nil
}
