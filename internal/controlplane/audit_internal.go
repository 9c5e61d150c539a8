package controlplane

import (
	"context"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authz/rbac"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// auditedAPI is an API for loopback clients that records audit events. In the audit log, the controllers of
// this server look like the controllers of kube-controller-manager. It implements loopback.API.
type auditedAPI struct {
	*endpoints.API
	audit *filters.AuditConfig
	rbac  *rbac.Authorizer // nil if RBAC is not configured
	// pathPrefix precedes the paths in events.
	pathPrefix string
}

// newLoopbackWriter returns the API of loopback clients. audit may be nil.
func newLoopbackWriter(s *settings, api *endpoints.API, audit *filters.AuditConfig, authorization *authorization) loopback.API {
	if audit == nil {
		return api
	}
	return &auditedAPI{API: api, audit: audit, rbac: authorization.rbac, pathPrefix: s.pathPrefix}
}

// internal returns the audit recorder for a request by server code. Such requests are not authorized. The
// recorded reason is the reason for which RBAC would allow the request, or "" if RBAC would not allow it.
func (a *auditedAPI) internal(ctx context.Context) *filters.InternalRequest {
	return a.audit.NewInternalRequest(request.WithPathPrefix(ctx, a.pathPrefix), func() string {
		if a.rbac == nil {
			return ""
		}
		attributes := authorizer.AttributesOf(request.UserFrom(ctx), request.InfoFrom(ctx))
		decision, reason, _ := a.rbac.Authorize(ctx, &attributes)
		if decision != authorizer.DecisionAllow {
			return ""
		}
		return reason
	})
}

// complete records the outcome of a request. code is the HTTP status code if err is nil.
func complete(audited *filters.InternalRequest, code int32, err error) {
	status := &metav1.Status{Status: metav1.StatusSuccess, Code: code}
	if err != nil {
		status = endpoints.StatusOf(err)
	}
	audited.Complete(status)
}

// Create implements loopback.API.
func (a *auditedAPI) Create(ctx context.Context, resource *rest.Resource, obj codec.Object, options metav1.CreateOptions) (*codec.Record, error) {
	audited := a.internal(ctx)
	if err := audited.RecordReceived(); err != nil {
		return nil, err
	}
	record, err := a.API.Create(ctx, resource, obj, options)
	complete(audited, http.StatusCreated, err)
	return record, err
}

// Update implements loopback.API. If change returns an error, the request is not recorded.
func (a *auditedAPI) Update(ctx context.Context, resource *rest.Resource, change func(codec.Object) (codec.Object, error), options metav1.UpdateOptions) (*codec.Record, error) {
	audited := a.internal(ctx)
	record, err := a.API.Update(ctx, resource, func(obj codec.Object) (codec.Object, error) {
		changed, err := change(obj)
		if err == nil {
			err = audited.RecordReceived()
		}
		return changed, err
	}, options)
	complete(audited, http.StatusOK, err)
	return record, err
}

// Apply implements loopback.API.
func (a *auditedAPI) Apply(ctx context.Context, resource *rest.Resource, configuration *unstructured.Unstructured, options metav1.ApplyOptions) (*codec.Record, error) {
	audited := a.internal(ctx)
	if err := audited.RecordReceived(); err != nil {
		return nil, err
	}
	record, err := a.API.Apply(ctx, resource, configuration, options)
	complete(audited, http.StatusOK, err)
	return record, err
}

// Delete implements loopback.API.
func (a *auditedAPI) Delete(ctx context.Context, resource *rest.Resource, options metav1.DeleteOptions) (*codec.Record, bool, error) {
	audited := a.internal(ctx)
	if err := audited.RecordReceived(); err != nil {
		return nil, false, err
	}
	record, gone, err := a.API.Delete(ctx, resource, options)
	complete(audited, http.StatusOK, err)
	return record, gone, err
}

// NewDeleter implements loopback.API. It records all deletions as one request, which starts with the first
// deletion and has the result of that deletion.
func (a *auditedAPI) NewDeleter(ctx context.Context, resource *rest.Resource, options metav1.DeleteOptions) (func(context.Context, types.NamespacedName) (bool, error), error) {
	audited := a.internal(ctx)
	remove, err := a.API.NewDeleter(ctx, resource, options)
	if err != nil {
		return nil, err
	}
	var first sync.Once
	return func(ctx context.Context, name types.NamespacedName) (gone bool, err error) {
		called := false
		first.Do(func() {
			if err = audited.RecordReceived(); err != nil {
				return
			}
			called = true
			gone, err = remove(ctx, name)
			outcome := err
			if apierrors.IsNotFound(err) {
				outcome = nil // another client deleted the object first
			}
			complete(audited, http.StatusOK, outcome)
		})
		if called || err != nil {
			return gone, err
		}
		return remove(ctx, name)
	}, nil
}
