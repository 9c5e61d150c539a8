// Package policies tests typical published admission policies, each with objects that it allows,
// rejects or changes, on its own server.
package policies
