package openapi

import "slices"

// setDescription sets the method, x-kubernetes-action, id and description of an operation. Client
// generators derive method names from the ids.
func (m *pathBuilder) setDescription(op *operation, r *Resource, action string) {
	article, of := withArticle(r.Kind), ""
	if r.Subresource != "" {
		of = r.Subresource + " of "
	}
	// The id consists of prefix, the group and version, and rest.
	prefix, rest := action, m.noun(r)
	switch action {
	case "get":
		op.method, op.action, prefix = "get", "get", "read"
		op.description = "read " + of + "the specified " + r.Kind
	case "create":
		op.method, op.action = "post", "post"
		op.description = "create " + of + article
	case "update":
		op.method, op.action, prefix = "put", "put", "replace"
		op.description = "replace " + of + "the specified " + r.Kind
	case "patch":
		op.method, op.action = "patch", "patch"
		op.description = "partially update " + of + "the specified " + r.Kind
	case "delete":
		op.method, op.action = "delete", "delete"
		op.description = "delete " + of + article
	case "deletecollection":
		op.method, op.action, prefix = "delete", "deletecollection", "delete"
		op.description = "delete collection of " + r.Kind
		rest = "Collection" + rest
	case "list", "listall":
		op.method, op.action, prefix = "get", "list", "list"
		op.description = m.listDescription(r)
		rest = allNamespaces(r, action == "listall", rest, "")
	case "watch":
		op.method, op.action = "get", "watch"
		op.description = "watch changes to an object of kind " + r.Kind + ". " + watchSentence +
			", filtered to a single item with the 'fieldSelector' parameter."
	case "watchlist", "watchlistall":
		op.method, op.action, prefix = "get", "watchlist", "watch"
		op.description = "watch individual changes to a list of " + r.Kind + ". " + watchSentence + "."
		rest = allNamespaces(r, action == "watchlistall", rest, "List")
	}
	op.id = prefix + m.idGroupVersion + rest
}

func (m *pathBuilder) listDescription(r *Resource) string {
	if !m.part.Custom && slices.Contains(r.Verbs, "watch") {
		return "list or watch objects of kind " + r.Kind
	}
	return "list objects of kind " + r.Kind
}

// allNamespaces returns the end of the id of an operation on a collection.
func allNamespaces(r *Resource, all bool, noun, list string) string {
	if all {
		return r.Kind + list + "ForAllNamespaces"
	}
	return noun + list
}

// discoveryOperation returns the operation that reads a discovery document.
func discoveryOperation(id, tag, description, model string) operation {
	return operation{
		method: "get", id: id, tag: tag, description: description,
		consumes: builtinMedia, produces: builtinMedia, responses: responses(model, "200"),
	}
}

// The following functions build the documents that do not belong to a group version.

func coreVersionsPaths() []pathItem {
	return []pathItem{newPathItem("/api/", []operation{
		discoveryOperation("getCoreAPIVersions", "core", "get available API versions", metaModels+"APIVersions"),
	})}
}

func groupsPaths() []pathItem {
	return []pathItem{newPathItem("/apis/", []operation{
		discoveryOperation("getAPIVersions", "apis", "get available API versions", metaModels+"APIGroupList"),
	})}
}

func groupPaths(group string) []pathItem {
	word := identifier(group)
	return []pathItem{newPathItem("/apis/"+group+"/", []operation{
		discoveryOperation("get"+title(word)+"APIGroup", word, "get information of a group", metaModels+"APIGroup"),
	})}
}

func versionPaths() []pathItem {
	return []pathItem{newPathItem("/version/", []operation{{
		method: "get", id: "getCodeVersion", tag: "version", description: "get the version information for this server",
		consumes: []string{"application/json"}, produces: []string{"application/json"},
		responses: responses("io.k8s.apimachinery.pkg.version.Info", "200"),
	}})}
}

func issuerPaths() []pathItem {
	return []pathItem{newPathItem("/.well-known/openid-configuration/", []operation{{
		method: "get", id: "getServiceAccountIssuerOpenIDConfiguration", tag: "WellKnown",
		description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
		produces:    []string{"application/json"}, responses: responses(modelText, "200"),
	}})}
}

func keysPaths() []pathItem {
	return []pathItem{newPathItem("/openid/v1/jwks/", []operation{{
		method: "get", id: "getServiceAccountIssuerOpenIDKeyset", tag: "openid",
		description: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
		produces:    []string{"application/jwk-set+json"}, responses: responses(modelText, "200"),
	}})}
}
