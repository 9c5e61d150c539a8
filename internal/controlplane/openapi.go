package controlplane

import (
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/rest"
)

// openAPIParts returns the OpenAPI parts of the built-in group versions.
func openAPIParts(source route.Source) []openapi.Part {
	var parts []openapi.Part
	for _, group := range source.Groups() {
		for _, version := range group.Versions {
			part := openapi.Part{GroupVersion: version.GroupVersion}
			for _, r := range version.Resources {
				part.Resources = append(part.Resources, openAPIResource(version, r))
			}
			parts = append(parts, part)
		}
	}
	return parts
}

func openAPIResource(version rest.Version, r *rest.Resource) openapi.Resource {
	out := openapi.Resource{
		Name: r.Name, Subresource: r.Subresource, Kind: r.Version.GVK.Kind, Namespaced: r.Namespaced,
		Verbs: r.VerbNames(), ReturnsDeleted: r.ReturnDeleted,
	}
	if r.Subresource == "" {
		return out
	}
	for _, parent := range version.Resources {
		if parent.Name == r.Name && parent.Subresource == "" {
			out.Kind = parent.Version.GVK.Kind
		}
	}
	out.Object = r.Version.GVK
	if connecter, ok := r.Storage.(rest.Connecter); ok {
		connection := connecter.Connection()
		out.Options, out.Text = connection.Options, connection.Text
		if !connection.Text {
			out.Verbs, out.Connect, out.ConnectPath = nil, connection.Methods, connection.AllowsPath
		}
	}
	return out
}
