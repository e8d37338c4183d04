pub(super) use super::fixed::build as build_default;
pub(super) use super::fixed::build as build_text;
pub(super) use super::fixed::build as build_v5;
