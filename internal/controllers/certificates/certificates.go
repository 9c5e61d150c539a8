// Package certificates approves, signs and cleans up CertificateSigningRequests, as
// kube-controller-manager's certificatesigningrequest controllers do, for the signers
// that Kubernetes has itself.
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

// Names of the controllers.
const (
	ApprovingName = "certificatesigningrequest-approving-controller"
	SigningName   = "certificatesigningrequest-signing-controller"
	CleanerName   = "certificatesigningrequest-cleaner-controller"
)

const (
	// account is the service account that all of them write as.
	account = "certificate-controller"
	workers = 5
)

// Config configures the controllers. All fields except Queues are required.
type Config struct {
	// Stored are the stored requests, past the watch cache.
	Stored storage.Interface
	// Authorizer decides which requests are approved.
	Authorizer authorizer.Authorizer
	// Authority returns the certificate and key with which requests to a signer are
	// signed; nil: they are not.
	Authority func(signer string) *tls.Certificate
	// Lifetime is the maximum lifetime of certificates.
	Lifetime time.Duration
	// Access is to the control plane; its user is replaced by the controllers'.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; may be nil.
	Queues *work.Metrics
}

// Controller is one of the controllers.
type Controller struct {
	config   Config
	name     string
	requests *loopback.Client[*certificatesv1.CertificateSigningRequest]
	// look processes a stored request.
	look func(context.Context, *certificatesv1.CertificateSigningRequest) error
}

// Registrations returns the registrations of the controllers. Without signing authorities, the
// signing controller has no work.
func Registrations() []controllers.Registration {
	var registrations []controllers.Registration
	for _, name := range []string{ApprovingName, SigningName, CleanerName} {
		registrations = append(registrations, controllers.Registration{Name: name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
			if name == SigningName && d.Keys.SigningAuthority == nil {
				return nil, nil
			}
			stored, err := d.Stored(certificatesv1.Resource("certificatesigningrequests"))
			if err != nil {
				return nil, err
			}
			return New(name, Config{
				Stored: stored, Authorizer: d.Authorizer, Authority: d.Keys.SigningAuthority, Lifetime: d.Settings.SigningDuration,
				Access: d.Access, Logger: d.Logger, Queues: d.Queues,
			}), nil
		}})
	}
	return registrations
}

// New returns a controller that has not started, by its name, one of the constants.
func New(name string, config Config) *Controller {
	c := &Controller{config: config, name: name}
	c.requests = loopback.For[*certificatesv1.CertificateSigningRequest](config.Access.AsController(account),
		certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"))
	switch name {
	case ApprovingName:
		c.look = c.approve
	case SigningName:
		c.look = c.sign
	case CleanerName:
		c.look = c.clean
	}
	return c
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[string]{Name: c.name, Workers: workers, Do: c.sync, Logger: c.config.Logger, Metrics: c.config.Queues})
	return &subscriber{queue}, queue.Close
}

// subscriber queues the requests that change.
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

// sync looks at a request, if there is one.
func (c *Controller) sync(ctx context.Context, name string) error {
	csr, err := storage.FindAs[*certificatesv1.CertificateSigningRequest](ctx, c.config.Stored, types.NamespacedName{Name: name})
	if err != nil || csr == nil {
		return err
	}
	return c.look(ctx, csr)
}

// errOther reports that another request has the name. It is processed again.
var errOther = errors.New("it is another request")

// update updates a subresource of a request, unless it was deleted. change receives the current
// request, and does not modify it if no action is necessary.
func (c *Controller) update(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string, change func(*certificatesv1.CertificateSigningRequest)) error {
	_, err := c.requests.Subresource(subresource).Update(ctx, types.NamespacedName{Name: csr.Name}, func(current *certificatesv1.CertificateSigningRequest) error {
		if current.UID != csr.UID {
			return errOther
		}
		change(current)
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the %s of the certificate signing request %s: %w", subresource, csr.Name, err)
	}
	return nil
}

// has reports whether a request has a condition, whose status is always true.
func has(csr *certificatesv1.CertificateSigningRequest, kinds ...certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return slices.Contains(kinds, c.Type)
	})
}
