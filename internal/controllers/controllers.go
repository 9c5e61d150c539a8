// Package controllers defines the contract between a control plane and the controllers that run in the server.
// Each subpackage contains one controller or several related controllers, and returns their registrations.
// Package controlplane contains the list of all registrations.
package controllers

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage"
)

// Controller is a controller of one control plane. Start must not be called concurrently.
type Controller interface {
	// Start starts the controller, which runs until ctx ends. It returns the subscriber for the change feed,
	// and the function wait, which blocks until all goroutines have ended. Start may be called again after
	// wait has returned.
	Start(ctx context.Context) (subscriber changes.Subscriber, wait func())
}

// Registration describes a controller and contains its constructor.
type Registration struct {
	// Name is the controller's name in kube-controller-manager.
	Name string
	// Optional disables the controller unless --controllers lists it.
	Optional bool
	// New creates the controller without starting a goroutine. It returns nil, nil if the controller is
	// disabled in this control plane. If New is nil, other components of the server do the work of the
	// kube-controller-manager controller with this name.
	New func(Dependencies) (Controller, error)
}

// Dependencies are the parts of a control plane that controllers use. All fields are required
// unless noted.
type Dependencies struct {
	// Access reads and writes objects. Each controller replaces its user with the controller's own service
	// account.
	Access *loopback.Access
	// OpenStorage opens the storage of a built-in resource for reading, without a watch cache.
	OpenStorage func(schema.GroupResource) (storage.Interface, error)
	// Objects reads the stored bytes of all resources.
	Objects Objects
	// Authorizer decides which certificate signing requests are approved.
	Authorizer authorizer.Authorizer
	// Keys contains the keys and certificates of the server.
	Keys Keys
	// Quotas is the ledger of quota charges.
	Quotas *quota.Ledger
	// List lists the current objects of a resource.
	List quota.ListFunc
	// DeleteRemote deletes the objects that aggregated servers store in a namespace, with the permissions of
	// user.
	DeleteRemote func(ctx context.Context, user *request.User, namespace string) RemoteContent
	// ServerIdentities selects the leases in kube-system that represent running servers.
	ServerIdentities labels.Selector
	// ReportsStorageVersions reports whether servers report storage versions.
	ReportsStorageVersions bool
	// Settings are the options of the controllers.
	Settings Settings
	// Logger logs errors after which controllers retry.
	Logger *slog.Logger
	// QueueMetrics records the metrics of work queues; nil disables them.
	QueueMetrics *work.Metrics
}

// Objects gives controllers access to the stored bytes of all resources.
type Objects struct {
	// Prefix is the prefix of all keys, such as "/registry".
	Prefix string
	// Decrypt decrypts stored values; nil if values are not encrypted.
	Decrypt changes.Decrypt
	// Resources finds the stored resources.
	Resources Resources
}

// Resources finds stored resources. It does not find resources whose objects are not stored. It is safe for
// concurrent use.
type Resources interface {
	// ByPath returns the resource whose objects are stored below a path.
	ByPath(path string) (changes.Resource, bool)
	// ByKind returns the resource with the given kind.
	ByKind(apiVersion, kind string) (changes.Resource, bool)
	// ByName returns a resource in any of its versions.
	ByName(resource schema.GroupResource) (changes.Resource, bool)
	// Namespaced returns all namespaced resources.
	Namespaced() []changes.Resource
}

// Keys contains the keys and certificates of the server.
type Keys struct {
	// SigningAuthority returns the CA certificate and key of a signer, or nil if the signer's requests are not
	// signed. A nil function disables signing.
	SigningAuthority func(signer string) *tls.Certificate
	// ServingCA returns the CA certificates that verify the server's certificate, as PEM. A nil function
	// disables their publication.
	ServingCA func() []byte
	// SignToken returns a signed service account token with the claims.
	SignToken func(context.Context, *serviceaccount.Claims) (string, error)
}

// Settings are the options of controllers.
type Settings struct {
	// NamespaceGrace is the delay between the deletion of a namespace and the deletion of its
	// content.
	NamespaceGrace time.Duration
	// SigningDuration is the maximum lifetime of signed certificates.
	SigningDuration time.Duration
	// LegacyTokenPeriod is the time after which an unused service account token in a Secret is invalidated, and
	// after which an invalid token is deleted.
	LegacyTokenPeriod time.Duration
	// KeepUnknownOwners preserves objects whose owners never existed.
	KeepUnknownOwners bool
}

// RemoteContent is the result of deleting the contents of a namespace from aggregated servers.
type RemoteContent struct {
	Discovery error   // failed discovery of some servers; nil if discovery succeeded
	Contents  []error // failed deletions
	// Remaining is the number of remaining objects by "resource.group".
	Remaining map[string]int
}
