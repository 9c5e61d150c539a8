package controlplane

import (
	"mainstay.dev/mainstay/apis/bootstrap"
	"mainstay.dev/mainstay/feature"
	"mainstay.dev/mainstay/telemetry"
)

// serverIdentity returns by what others know this server, nil if they do not.
func (i *instance) serverIdentity() *bootstrap.Identity {
	if !i.rows.Gates.Enabled(feature.APIServerIdentity) {
		return nil
	}
	return &bootstrap.Identity{ID: telemetry.ServerID(i.env.Hostname), Hostname: i.env.Hostname, PeerAddress: i.peerAddress()}
}
