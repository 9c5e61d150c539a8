package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/driver"
)

// Driver returns the driver of etcd clusters. The driver's Config determines the endpoints, the health
// prefix, the cluster ID and the environment of a store; config provides the other settings.
func Driver(config Config) driver.Driver {
	return driver.Driver{
		Schemes: []string{"http", "https"},
		Shared:  true,
		Check: func(urls []string) error {
			config := config
			config.Endpoints = urls
			return config.Check()
		},
		Open: func(ctx context.Context, c driver.Config) (kv.Backend, error) {
			config := config
			config.Endpoints, config.HealthPrefix, config.ClusterID = c.URLs, c.Prefix, c.ID
			config.Dial, config.Logger, config.Registerer = c.Dial, c.Logger, c.Registerer
			store, err := openReady(ctx, config, c.Prefix)
			if err != nil {
				if ctx.Err() != nil {
					return nil, errors.Join(ctx.Err(), err)
				}
				return nil, fmt.Errorf("use etcd at %s: %w", strings.Join(c.URLs, ","), err)
			}
			return store, nil
		},
	}
}

// openReady opens a store, waits until etcd responds, and rejects incomplete data below prefix.
func openReady(ctx context.Context, config Config, prefix string) (*Store, error) {
	store, err := Open(config)
	if err != nil {
		return nil, err
	}
	timeout := store.config.OpenTimeout
	waitCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = store.awaitComplete(waitCtx, prefix)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, kv.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", kv.ErrUnavailable, err) // the first attempt did not end in time
	}
	if errors.Is(err, kv.ErrUnavailable) && ctx.Err() == nil {
		err = fmt.Errorf("no response for %s: %w", timeout, err)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// awaitComplete waits until etcd responds, and checks the data below prefix. It retries if etcd becomes
// unavailable between these two requests, for example because of an election.
func (s *Store) awaitComplete(ctx context.Context, prefix string) error {
	for {
		err := s.Await(ctx)
		if err == nil {
			err = s.CheckComplete(ctx, prefix)
		}
		if !errors.Is(err, kv.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return err
		}
	}
}
