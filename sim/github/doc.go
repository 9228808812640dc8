// Package github is a GitHub that a test or the demo scripts: an HTTP server with the REST routes,
// the webhooks, the rate limits and the runner service that a fleet of self-hosted runners meets.
//
// It is physics, not a mock: answers take time, get lost, run into limits; runners are fungible; lists
// lag behind; deliveries repeat, reorder and vanish. Its tests hold every answer and every webhook to
// GitHub's own published descriptions (see tests/contract).
//
// It must never import anything of this project, and never reach beyond the listener it was given and
// the webhook URL it was told.
package github
