package controlplane

import (
	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/telemetry"
)

// serverIdentity returns by what others know this server, nil if they do not.
func (i *instance) serverIdentity() *bootstrap.Identity {
	if !i.rows.Gates.Enabled(feature.APIServerIdentity) {
		return nil
	}
	return &bootstrap.Identity{ID: telemetry.ServerID(i.env.Hostname), Hostname: i.env.Hostname, PeerAddress: i.peerAddress()}
}
