// Package certificates approves, signs and deletes CertificateSigningRequests for the built-in
// signers, like kube-controller-manager's certificatesigningrequest controllers.
package certificates

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
)

// The names of the controllers.
const (
	ApprovingName = "certificatesigningrequest-approving-controller"
	SigningName   = "certificatesigningrequest-signing-controller"
	CleanerName   = "certificatesigningrequest-cleaner-controller"
)

const (
	// account is the service account of all three controllers.
	account = "certificate-controller"
	workers = 5
)

// Config configures the controllers. All fields except QueueMetrics are required.
type Config struct {
	// Storage reads CertificateSigningRequests without a watch cache.
	Storage storage.Interface
	// Authorizer decides which requests are approved.
	Authorizer authorizer.Authorizer
	// Authority returns the CA certificate and key of a signer, or nil if the signer's requests are not signed.
	Authority func(signer string) *tls.Certificate
	// Lifetime is the maximum lifetime of certificates.
	Lifetime time.Duration
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Controller is one of the three controllers. It starts no goroutine before Start.
type Controller struct {
	config   Config
	name     string
	requests *loopback.Client[*certificatesv1.CertificateSigningRequest]
	// process handles one request.
	process func(context.Context, *certificatesv1.CertificateSigningRequest) error
}

// Registrations returns the registrations of the three controllers. The signing controller is disabled if there
// is no signing authority.
func Registrations() []controllers.Registration {
	var registrations []controllers.Registration
	for _, name := range []string{ApprovingName, SigningName, CleanerName} {
		registrations = append(registrations, controllers.Registration{Name: name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
			if name == SigningName && d.Keys.SigningAuthority == nil {
				return nil, nil
			}
			stored, err := d.OpenStorage(certificatesv1.Resource("certificatesigningrequests"))
			if err != nil {
				return nil, err
			}
			return New(name, Config{
				Storage: stored, Authorizer: d.Authorizer, Authority: d.Keys.SigningAuthority, Lifetime: d.Settings.SigningDuration,
				Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics,
			}), nil
		}})
	}
	return registrations
}

// New creates one of the controllers without starting it. name is ApprovingName, SigningName or CleanerName.
func New(name string, config Config) *Controller {
	c := &Controller{config: config, name: name}
	c.requests = loopback.For[*certificatesv1.CertificateSigningRequest](config.Access.AsController(account),
		certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"))
	switch name {
	case ApprovingName:
		c.process = c.approve
	case SigningName:
		c.process = c.sign
	case CleanerName:
		c.process = c.clean
	}
	return c
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[string]{Name: c.name, Workers: workers, Sync: c.sync, Logger: c.config.Logger, Metrics: c.config.QueueMetrics})
	return &subscriber{queue}, queue.Close
}

// subscriber enqueues changed requests by name.
type subscriber struct{ queue *work.Queue[string] }

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == "certificatesigningrequests" && c.Value != nil {
		s.queue.Add(c.Name)
	}
}

// sync processes a request, unless it was deleted.
func (c *Controller) sync(ctx context.Context, name string) error {
	csr, err := storage.FindAs[*certificatesv1.CertificateSigningRequest](ctx, c.config.Storage, types.NamespacedName{Name: name})
	if err != nil || csr == nil {
		return err
	}
	return c.process(ctx, csr)
}

// errReplaced is returned if another request with the same name has replaced the request. The queue retries the
// key.
var errReplaced = errors.New("another request has the same name")

// update updates a subresource of a request. It does nothing if the request was deleted. change receives the
// current request, and leaves it unmodified if no update is necessary.
func (c *Controller) update(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string, change func(*certificatesv1.CertificateSigningRequest)) error {
	_, err := c.requests.Subresource(subresource).Update(ctx, types.NamespacedName{Name: csr.Name}, func(current *certificatesv1.CertificateSigningRequest) error {
		if current.UID != csr.UID {
			return errReplaced
		}
		change(current)
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the %s of the certificate signing request %s: %w", subresource, csr.Name, err)
	}
	return nil
}

// hasCondition reports whether a request has a condition of one of the types. It need not check the status,
// because the status of these conditions is always True.
func hasCondition(csr *certificatesv1.CertificateSigningRequest, kinds ...certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return slices.Contains(kinds, c.Type)
	})
}
