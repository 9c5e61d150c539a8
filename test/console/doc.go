// Package console tests the web console in headless Chromium, against a real server. The tests are skipped if Chromium is
// not installed.
package console
