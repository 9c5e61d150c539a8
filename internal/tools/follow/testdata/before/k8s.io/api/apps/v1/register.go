// Package v1 is a fixture.
package v1

// GroupName is the name of the group.
const GroupName = "apps"
