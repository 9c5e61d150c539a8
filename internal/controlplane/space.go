package controlplane

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/reflector"
	"mainstay.dev/mainstay/internal/telemetry"
)

// alive returns a liveness check that passes for faults that a restart
// would not cure, such as a full disk or a damaged file: reads still work.
func alive(check telemetry.Check) telemetry.Check {
	return telemetry.Check{Name: check.Name, Group: check.Group, Run: func(ctx context.Context) error {
		err := check.Run(ctx)
		if lacksSpace(err) || errors.Is(err, kv.ErrCorrupt) {
			return nil
		}
		return err
	}}
}

// lacksSpace reports whether a write failed because the disk is full.
func lacksSpace(err error) bool {
	var status apierrors.APIStatus
	return errors.Is(err, kv.ErrNoSpace) || errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage
}

// bootstrapLater creates the objects of every cluster when the disk has space, and then calls
// keepUp. Until then, existing objects are served.
func (i *instance) bootstrapLater(ctx context.Context, err error, then func()) error {
	i.env.Logger.Error("some default objects of the cluster are missing, and are created when the store has space", "prefix", i.prefix, "err", err)
	for backoff := reflector.Backoff(reflector.MaxBackoff); err != nil; err = i.bootstrap(ctx) {
		if reflector.Sleep(ctx, &backoff) != nil {
			return nil
		}
	}
	i.env.Logger.Info("all default objects of the cluster exist now", "prefix", i.prefix)
	then()
	return nil
}
