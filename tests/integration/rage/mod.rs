//! Archives, dictionaries, skeletons and cutscenes of RAGE.

mod archive;
mod cameras;
mod cutscene;
mod skeletons;
mod ycd_own;
mod ycd_values;
mod ycd_xml;
