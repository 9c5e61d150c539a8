package extension

import (
	"net/http"
	"strings"
)

// discovery serves /apis. The document is aggregated if the client requests it and the server supports it.
func (s *Server) discovery(w http.ResponseWriter, r *http.Request) {
	if s.options.Plain || !strings.Contains(r.Header.Get("Accept"), "APIGroupDiscoveryList") {
		version := object{"groupVersion": Group + "/" + Version, "version": Version}
		write(w, http.StatusOK, object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{
			object{"name": Group, "versions": []any{version}, "preferredVersion": version},
		}})
		return
	}
	w.Header().Set("Etag", `"1"`)
	if r.Header.Get("If-None-Match") == `"1"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	kind := object{"group": Group, "version": Version, "kind": "Apple"}
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	writeBody(w, object{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": object{}, "items": []any{
		object{"metadata": object{"name": Group}, "versions": []any{object{"version": Version, "freshness": "Current", "resources": []any{
			object{
				"resource": "apples", "responseKind": kind, "scope": "Namespaced", "singularResource": "apple", "shortNames": []any{"ap"},
				"verbs": []any{"create", "get", "list", "watch"}, "subresources": []any{object{"subresource": "whoami", "responseKind": kind, "verbs": []any{"get"}}},
			},
		}}}},
	}})
}

func resourceList() object {
	return object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": Group + "/" + Version, "resources": []any{
		object{"name": "apples", "singularName": "apple", "namespaced": true, "kind": "Apple", "verbs": []any{"create", "get", "list", "watch"}, "shortNames": []any{"ap"}},
		object{"name": "apples/whoami", "singularName": "", "namespaced": true, "kind": "Apple", "verbs": []any{"get"}},
	}}
}

const base = "/apis/" + Group + "/" + Version

// apple returns the schema of an apple. refs is the prefix of references to other schemas.
func apple(refs string) object {
	return object{
		"type": "object", "description": "Apple is something to eat.",
		"properties": object{
			"apiVersion": object{"type": "string"}, "kind": object{"type": "string"},
			"metadata": object{"$ref": refs + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
			"color":    object{"type": "string", "description": "What it looks like."},
		},
		"x-kubernetes-group-version-kind": []any{object{"group": Group, "version": Version, "kind": "Apple"}},
	}
}

// metadata returns a schema that has the same name as a schema of Mainstay's server, but different content.
// Mainstay must serve both.
func metadata() object {
	return object{"type": "object", "description": "ObjectMeta of another time.", "properties": object{"name": object{"type": "string"}}}
}

func documentV3() object {
	const refs = "#/components/schemas/"
	body := object{"application/json": object{"schema": object{"$ref": refs + "com.example.fruit.Apple"}}}
	kind := object{"group": Group, "version": Version, "kind": "Apple"}
	return object{
		"openapi": "3.0.0", "info": object{"title": "fruit", "version": "1"},
		"paths": object{base + "/namespaces/{namespace}/apples": object{
			"post": object{"responses": object{"200": object{"description": "OK", "content": body}}, "x-kubernetes-group-version-kind": kind, "x-kubernetes-action": "post"},
		}},
		"components": object{"schemas": object{
			"com.example.fruit.Apple": apple(refs), "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": metadata(),
		}},
	}
}

func documentV2() object {
	const refs = "#/definitions/"
	kind := object{"group": Group, "version": Version, "kind": "Apple"}
	ok := object{"200": object{"description": "OK", "schema": object{"$ref": refs + "com.example.fruit.Apple"}}}
	return object{
		"swagger": "2.0", "info": object{"title": "fruit", "version": "1"},
		"paths": object{
			base + "/namespaces/{namespace}/apples": object{
				"post":       object{"operationId": "createApple", "responses": ok, "x-kubernetes-group-version-kind": kind, "x-kubernetes-action": "post"},
				"parameters": []any{object{"$ref": "#/parameters/namespace-fruit"}},
			},
			"/healthz": object{"get": object{"responses": ok}},
		},
		"parameters": object{"namespace-fruit": object{"name": "namespace", "in": "path", "required": true, "type": "string"}},
		"definitions": object{
			"com.example.fruit.Apple": apple(refs), "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": metadata(), "com.example.fruit.Unused": object{"type": "object"},
		},
	}
}
