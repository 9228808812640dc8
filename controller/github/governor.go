package github

// Governor keeps minting below GitHub's own ceiling.
type Governor struct{}
