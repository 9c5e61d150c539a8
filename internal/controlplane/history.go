package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// hasHistory reports whether the archive contains the history of this control plane. It returns
// false for a view of the past.
func (s *settings) hasHistory() bool {
	history := s.env.Storage.History
	return history != nil && !s.readOnly && history.Prefix() == s.keyPrefix()+"/"
}

// newHistory returns the resources of the API group history.mainstay.dev, and adds them to the
// OpenAPI documents.
func newHistory(s *settings, h *historyObjects, documents *openapi.Documents) *route.Static {
	resources := []*rest.Resource{history.New(history.Config{
		Archive: s.env.Storage.History, Parse: h.parse, Key: h.keyOf, JSON: h.json, Allows: h.allows, Now: simulation.Now,
	})}
	static := route.NewStatic(resources)
	for _, part := range openAPIParts(static) {
		part.Custom, part.Schemas = true, history.Schemas
		documents.Set(part)
	}
	return static
}

// historyObjects maps the keys of the history to objects.
type historyObjects struct {
	settings      *settings
	builtin       *builtinResources
	authorization *authorization
	keys          *Keys
}

// parse implements history.Config.Parse.
func (h *historyObjects) parse(key string) (history.Object, bool) {
	path, rest, ok := h.keys.split(key)
	if !ok {
		return history.Object{}, false
	}
	if _, internal := leaseResources()[path]; internal {
		return history.Object{}, false
	}
	resource, _ := h.keys.Resource(key)
	object := history.Object{Resource: resource, NamespacedName: types.NamespacedName{Name: rest}}
	if namespace, name, ok := strings.Cut(rest, "/"); ok {
		object.NamespacedName = types.NamespacedName{Namespace: namespace, Name: name}
	}
	return object, true
}

// keyOf implements history.Config.Key.
func (h *historyObjects) keyOf(resource schema.GroupResource, name types.NamespacedName) string {
	return h.settings.keyPrefix() + "/" + h.keys.pathOf(resource) + "/" + strings.TrimPrefix(name.String(), "/")
}

// json implements history.Config.JSON.
func (h *historyObjects) json(ctx context.Context, entry *kv.Entry) ([]byte, error) {
	object, ok := h.parse(entry.Key)
	if !ok {
		return nil, fmt.Errorf("%s is not the key of an object", entry.Key)
	}
	value := entry.Value
	if transformer := h.settings.env.Storage.Transformer; transformer != nil {
		if t := transformer(object.Resource); t != nil {
			var err error
			if value, _, err = t.FromStorage(ctx, value, entry.Key); err != nil {
				return nil, fmt.Errorf("decrypt %s: %w", entry.Key, err)
			}
		}
	}
	if bytes.HasPrefix(value, []byte("{")) {
		return value, nil // a custom resource, or a built-in resource that is stored as JSON
	}
	kind := h.builtin.rows.Spec(object.Resource).Kind
	if kind == nil {
		return nil, fmt.Errorf("%s belongs to no resource of this server", entry.Key)
	}
	return codec.NewRecord(kind, object.NamespacedName, value, int64(entry.Modified)).Append(nil, kind.Hub, codec.JSON)
}

// restore implements endpoints.Config.Restore.
func (h *historyObjects) restore(ctx context.Context, resource schema.GroupResource, name types.NamespacedName, revision string) (*request.Restored, error) {
	at, err := strconv.ParseInt(revision, 10, 64)
	if err != nil || at <= 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the revision %q to restore from is not valid", revision))
	}
	if object := (history.Object{Resource: resource, NamespacedName: name}); !h.allows(ctx, object) {
		return nil, apierrors.NewForbidden(resource, name.Name, fmt.Errorf("restoring an object requires the verbs get and %s", HistoryVerb))
	}
	view, err := h.settings.env.Storage.History.View(ctx, kv.Revision(at))
	if err != nil {
		return nil, momentError(err)
	}
	entry, _, err := view.Get(ctx, h.keyOf(resource, name), 0)
	if err != nil {
		return nil, momentError(err)
	}
	if entry == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s %q did not exist at revision %d", resource, name.Name, at))
	}
	text, err := h.json(ctx, entry)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &request.Restored{UID: object.UID, Created: object.CreationTimestamp}, nil
}

// allows implements history.Config.Allows. The user must be allowed to use the verbs get and
// HistoryVerb.
func (h *historyObjects) allows(ctx context.Context, object history.Object) bool {
	for _, verb := range []string{"get", HistoryVerb} {
		attributes := authorizer.Attributes{
			User: request.UserFrom(ctx), Verb: verb, ResourceRequest: true, APIGroup: object.Resource.Group, APIVersion: "*",
			Resource: object.Resource.Resource, Namespace: object.Namespace, Name: object.Name,
		}
		decision, _, err := h.authorization.authorizer.Authorize(ctx, &attributes)
		if err != nil || decision != authorizer.DecisionAllow {
			return false
		}
	}
	return true
}
